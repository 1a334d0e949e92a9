"""The hosted pages: what customers and merchants see in a browser. No script is needed, and none is served."""
