"""Files that merchants send: checked by their content, kept encrypted, handed to staff as downloads."""
