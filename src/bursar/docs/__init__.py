"""The reference page: the OpenAPI document as plain HTML, readable without script and without internet access."""
