import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.security.UserGroupInformation;

/** An HDFS that asks for Kerberos, set up by the site files of the class path: says "ready URI". */
public final class SecuredHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new HdfsConfiguration();
    UserGroupInformation.setConfiguration(configuration);
    UserGroupInformation.loginUserFromKeytab(arguments[1], arguments[2]);
    MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(configuration, new File(arguments[0]))
            .numDataNodes(1)
            .checkDataNodeHostConfig(true)
            .build();
    cluster.waitActive();
    cluster.getFileSystem().setPermission(new Path("/"), new FsPermission((short) 0777));
    System.out.println("ready " + cluster.getURI());
    System.out.flush();
    while (System.in.read() >= 0) {}
    cluster.shutdown(true);
    System.exit(0);
  }
}
