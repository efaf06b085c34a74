import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A real HDFS on the loopback: says "ready URI" and ends when its standard input does. */
public final class MiniCluster {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(configuration, new File(arguments[0])).numDataNodes(1).build();
    cluster.waitActive();
    System.out.println("ready " + cluster.getURI());
    System.out.flush();
    while (System.in.read() >= 0) {}
    cluster.shutdown(true);
    System.exit(0);
  }
}
