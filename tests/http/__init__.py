"""The conventions that every route shares, over real HTTP."""  # noqa: A005 - nobody imports it as http
