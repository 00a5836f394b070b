"""Objects of object stores and of HTTP servers, by paths that files have too; the door to obstore."""
