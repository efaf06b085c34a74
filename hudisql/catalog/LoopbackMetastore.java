import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TUGIBasedProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.hadoop.hive.thrift.TUGIContainingTransport;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Serves the Hive Metastore 2.3 of the class path on 127.0.0.1 alone, on a port that the kernel chooses and
 * that is then written to the file given as the only argument. Hive's own main() of that version listens on
 * every network interface, without any authentication, and has no setting to bind it. Compiled at start by
 * Janino, which is among Spark's jars: so no generics, no lambdas.
 */
public class LoopbackMetastore {
    /** Makes the tables of locks where they are not yet there. */
    private static void makeLockTables(HiveConf configuration) throws Exception {
        try {
            TxnDbUtil.prepDb(configuration);
        } catch (SQLException error) {
            // Derby's state of a table that exists.
            if (!"X0Y32".equals(error.getSQLState())) {
                throw error;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        HiveConf configuration = new HiveConf(HiveMetaStore.class);
        final HiveMetaStore.HMSHandler handler =
            new HiveMetaStore.HMSHandler("hudisql embedded metastore", configuration, false);
        // The tables of locks, by which ingest workers share tables: only Hive's own schematool makes them.
        if (!Boolean.getBoolean("hudisql.without.locks")) {
            makeLockTables(configuration);
        }
        IHMSHandler retrying = RetryingHMSHandler.getProxy(configuration, handler, false);
        TServerSocket socket =
            new TServerSocket(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0));
        TThreadPoolServer.Args options = new TThreadPoolServer.Args(socket);
        // Hive asks for partitions by expressions that Spark's jars lack the classes to evaluate (LlapSigner):
        // a server that does not know the call makes Hive list the partitions and evaluate them itself.
        options.processor(new TUGIBasedProcessor(retrying) {
            public Map getProcessMapView() {
                Map known = new HashMap(super.getProcessMapView());
                known.remove("get_partitions_by_expr");
                return known;
            }
        });
        options.transportFactory(new TUGIContainingTransport.Factory());
        options.protocolFactory(new TBinaryProtocol.Factory());
        options.minWorkerThreads(4);
        options.maxWorkerThreads(1000);
        TThreadPoolServer server = new TThreadPoolServer(options);
        server.setServerEventHandler(new TServerEventHandler() {
            public void preServe() {}

            public ServerContext createContext(TProtocol input, TProtocol output) {
                return null;
            }

            public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
                handler.shutdown();
            }

            public void processContext(ServerContext context, TTransport input, TTransport output) {}
        });
        File target = new File(arguments[0]);
        File staged = new File(arguments[0] + ".staged");
        String port = Integer.toString(socket.getServerSocket().getLocalPort());
        Files.write(staged.toPath(), port.getBytes(StandardCharsets.UTF_8));
        Files.move(staged.toPath(), target.toPath(), StandardCopyOption.ATOMIC_MOVE);
        server.serve();
    }
}
