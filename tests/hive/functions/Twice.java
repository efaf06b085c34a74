package example;

import org.apache.hadoop.hive.ql.exec.UDF;

/** A user's function. */
public class Twice extends UDF {
    public String evaluate(String value) {
        return value == null ? null : value + value;
    }
}
