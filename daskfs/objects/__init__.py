"""Objects in object stores and on HTTP servers, accessed through paths like files; the only user of obstore."""
