import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;

/** What database tools do with a JDBC driver: connect, browse, run statements, read typed values, fail. */
public class JdbcClient {
    public static void main(String[] arguments) throws Exception {
        // Old drivers register themselves only when they are loaded.
        Class.forName("org.apache.hive.jdbc.HiveDriver");
        try (Connection connection = DriverManager.getConnection(arguments[0], "me", "")) {
            DatabaseMetaData metadata = connection.getMetaData();
            System.out.println("product=" + metadata.getDatabaseProductName());
            System.out.println("driver=" + metadata.getDriverVersion());
            try (Statement statement = connection.createStatement()) {
                run(statement);
                print("tables", metadata.getTables(null, "default", "jdbc_%", null), 3);
                print("columns", metadata.getColumns(null, "default", "jdbc_t", "%"), 4);
                print("schemas", metadata.getSchemas(), 1);
                print("typed", statement.executeQuery(
                    "SELECT true, 7Y, 1.50BD, DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05.678', "
                        + "X'00FF', array(1, 2), CAST(NULL AS STRING)"), 8);
                System.out.println("large=" + count(statement));
                fail(statement);
                statement.execute("DROP TABLE jdbc_t");
            }
        }
        System.out.println("end");
    }

    private static void run(Statement statement) throws SQLException {
        statement.execute("CREATE TABLE jdbc_t (id INT, v STRING, ts BIGINT) USING hudi "
            + "TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts')");
        print("merged", statement.executeQuery("MERGE INTO jdbc_t t USING (SELECT 1 id, 'ä' v, 2L ts) s "
            + "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"), 0);
        print("rows", statement.executeQuery("SELECT id, v FROM jdbc_t"), 2);
        print("called", statement.executeQuery("CALL show_commits(table => 'jdbc_t')"), 0);
    }

    private static int count(Statement statement) throws SQLException {
        statement.setFetchSize(1000);
        int rows = 0;
        try (ResultSet found = statement.executeQuery("SELECT id, repeat('x', 50) FROM range(25000)")) {
            while (found.next()) {
                rows += found.getInt(1) == rows && found.getString(2).length() == 50 ? 1 : 0;
            }
        }
        return rows;
    }

    private static void fail(Statement statement) {
        try {
            statement.execute("SELECT no_such_column FROM jdbc_t");
        } catch (SQLException error) {
            System.out.println("state=" + error.getSQLState());
        }
    }

    private static void print(String label, ResultSet found, int columns) throws SQLException {
        ResultSetMetaData described = found.getMetaData();
        int shown = columns == 0 ? 0 : Math.min(columns, described.getColumnCount());
        while (found.next()) {
            StringBuilder line = new StringBuilder(label + "=");
            for (int column = 1; column <= shown; column++) {
                line.append(column == 1 ? "" : "|").append(found.getString(column));
            }
            System.out.println(line);
        }
        found.close();
    }
}
