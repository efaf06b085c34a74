"""hudisql's use of Spark and its JVM: the session, tasks and their errors, cached rows."""
