"""Payment links: an address to send or print, behind which anybody can pay one amount."""
