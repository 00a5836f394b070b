"""What selectors read: blocks of rows and columns, rows of a matrix as a matrix, streams over both."""
