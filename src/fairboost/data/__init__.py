"""The only door for user data: what is checked, and rows sorted into cells."""
