"""`hudisql serve`: HiveServer2's Thrift protocol for beeline, JDBC, ODBC and Python clients."""
