import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;

/** Writes a token file of a name node, as YARN gives one to each container. */
public final class FetchToken {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    UserGroupInformation.setConfiguration(configuration);
    Credentials credentials = new Credentials();
    FileSystem.get(URI.create(arguments[0]), configuration).addDelegationTokens("yarn", credentials);
    credentials.addSecretKey(new org.apache.hadoop.io.Text("secret"), new byte[300]);
    credentials.writeTokenStorageFile(new Path("file://" + arguments[1]), configuration);
  }
}
