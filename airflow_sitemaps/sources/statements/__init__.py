"""Parts of SQL statements: relations, binds, literals."""
