import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.HadoopThriftAuthBridge;
import org.apache.hadoop.hive.metastore.security.MetastoreDelegationTokenManager;
import org.apache.hadoop.hive.metastore.utils.MetaStoreUtils;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** What SecuredMetastore does, for the Hive Metastore 3.1 of the class path. */
public final class SecuredMetastore3 {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = MetastoreConf.newMetastoreConf();
    UserGroupInformation.setConfiguration(configuration);
    HadoopThriftAuthBridge.Server sasl =
        HadoopThriftAuthBridge.getBridge()
            .createServer(
                MetastoreConf.getVar(configuration, MetastoreConf.ConfVars.KERBEROS_KEYTAB_FILE),
                MetastoreConf.getVar(configuration, MetastoreConf.ConfVars.KERBEROS_PRINCIPAL),
                MetastoreConf.getVar(configuration, MetastoreConf.ConfVars.KERBEROS_PRINCIPAL));
    HiveMetaStore.HMSHandler handler =
        new HiveMetaStore.HMSHandler("hudisql's tests", configuration, false);
    MetastoreDelegationTokenManager tokens = new MetastoreDelegationTokenManager();
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
                    sasl.createTransportFactory(
                        MetaStoreUtils.getMetaStoreSaslProperties(configuration, false)))
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
