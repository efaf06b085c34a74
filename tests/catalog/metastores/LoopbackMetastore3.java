import java.net.InetAddress;
import java.net.InetSocketAddress;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TUGIBasedProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.security.TUGIContainingTransport;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Serves the Hive Metastore 3.1 of the class path on 127.0.0.1 alone, on the port given as the only argument:
 * its own main() listens on every network interface, without a setting for that. Run as a source file.
 */
public class LoopbackMetastore3 {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = MetastoreConf.newMetastoreConf();
        HiveMetaStore.HMSHandler handler =
            new HiveMetaStore.HMSHandler("hudisql's tests", configuration, false);
        IHMSHandler retrying = RetryingHMSHandler.getProxy(configuration, handler, false);
        TServerSocket socket = new TServerSocket(
            new InetSocketAddress(InetAddress.getByName("127.0.0.1"), Integer.parseInt(arguments[0])));
        TThreadPoolServer server = new TThreadPoolServer(new TThreadPoolServer.Args(socket)
            .processor(new TUGIBasedProcessor<>(retrying))
            .transportFactory(new TUGIContainingTransport.Factory())
            .protocolFactory(new TBinaryProtocol.Factory())
            .minWorkerThreads(4)
            .maxWorkerThreads(100));
        server.setServerEventHandler(new TServerEventHandler() {
            @Override
            public void preServe() {}

            @Override
            public ServerContext createContext(TProtocol input, TProtocol output) {
                return null;
            }

            @Override
            public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
                handler.shutdown();
            }

            @Override
            public void processContext(ServerContext context, TTransport input, TTransport output) {}
        });
        server.serve();
    }
}
