import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.io.storage.HoodieHBaseKVComparator;
import org.apache.hudi.org.apache.hadoop.hbase.HConstants;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContext;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileContextBuilder;
import org.apache.hudi.org.apache.hadoop.hbase.util.ChecksumType;

/**
 * Writes an HFile with a small index block size, as HBase in the bundle of Hudi 0.15 does.
 *
 * <p>Arguments: the file, how many cells, hfile.index.block.max.size, NONE or GZ.
 */
public final class MakeIndexLevels {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    int count = Integer.parseInt(arguments[1]);
    conf.setInt("hfile.index.block.max.size", Integer.parseInt(arguments[2]));
    conf.setInt("hfile.index.block.min.entries", 2);
    Path path = new Path(arguments[0]);
    FileSystem fs = FileSystem.getLocal(conf).getRawFileSystem();
    HFileContext context = new HFileContextBuilder().withBlockSize(256)
        .withCompression(Compression.Algorithm.valueOf(arguments[3])).withChecksumType(ChecksumType.CRC32C)
        .withCellComparator(new HoodieHBaseKVComparator()).build();
    try (HFile.Writer writer = HFile.getWriterFactory(conf, new CacheConfig(conf))
        .withPath(fs, path).withFileContext(context).create()) {
      for (int i = 0; i < count; i++) {
        String key = String.format("key-%05d", i);
        writer.append(new KeyValue(key.getBytes(), new byte[0], new byte[0], HConstants.LATEST_TIMESTAMP,
            KeyValue.Type.Put, ("value of " + i).getBytes()));
      }
      writer.appendFileInfo("schema".getBytes(), "\"string\"".getBytes());
    }
  }
}
