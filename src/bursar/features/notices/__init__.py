"""Notices: e-mail and text messages to merchants and customers."""
