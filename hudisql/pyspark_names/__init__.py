"""PySpark sessions that know the names of Hudi tables (`hudisql.install`)."""
