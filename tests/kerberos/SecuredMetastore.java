import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.MetaStoreUtils;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.shims.ShimLoader;
import org.apache.hadoop.hive.thrift.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.thrift.HiveDelegationTokenManager;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * Serves a Hive Metastore 2.3 that asks for Kerberos on 127.0.0.1 alone, on the port given as the only
 * argument: its own main() listens on every network interface. Does what that does where SASL is on.
 */
public final class SecuredMetastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf configuration = new HiveConf(HiveMetaStore.class);
    UserGroupInformation.setConfiguration(configuration);
    HadoopThriftAuthBridge.Server sasl =
        ShimLoader.getHadoopThriftAuthBridge()
            .createServer(
                configuration.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_KEYTAB_FILE),
                configuration.getVar(HiveConf.ConfVars.METASTORE_KERBEROS_PRINCIPAL));
    HiveMetaStore.HMSHandler handler =
        new HiveMetaStore.HMSHandler("hudisql's tests", configuration, false);
    HiveDelegationTokenManager tokens = new HiveDelegationTokenManager();
    tokens.startDelegationTokenSecretManager(
        configuration, handler, HadoopThriftAuthBridge.Server.ServerMode.METASTORE);
    sasl.setSecretManager(tokens.getSecretManager());
    set("saslServer", sasl);
    set("delegationTokenManager", tokens);
    IHMSHandler retrying = RetryingHMSHandler.getProxy(configuration, handler, false);
    TServerSocket socket =
        new TServerSocket(
            new InetSocketAddress(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[0])));
    new TThreadPoolServer(
            new TThreadPoolServer.Args(socket)
                .processor(sasl.wrapProcessor(new ThriftHiveMetastore.Processor<>(retrying)))
                .transportFactory(
                    sasl.createTransportFactory(MetaStoreUtils.getMetaStoreSaslProperties(configuration)))
                .protocolFactory(new TBinaryProtocol.Factory())
                .minWorkerThreads(4)
                .maxWorkerThreads(100))
        .serve();
  }

  private static void set(String name, Object value) throws Exception {
    Field field = HiveMetaStore.class.getDeclaredField(name);
    field.setAccessible(true);
    field.set(null, value);
  }
}
