"""The files that Apache RocketMQ's name server and brokers are made of, each with its SHA-256: what `mvn dependency:list` names for
`rocketmq-broker` and `rocketmq-namesrv`, without native libraries, codecs that nothing here speaks, and annotations.
"""

from jepsen_like.bench.jars import JarSet

ROCKETMQ_VERSION = "5.5.0"
JARS: tuple[tuple[str, str], ...] = (
    ("org.jetbrains:annotations:13.0", "ace2a10dc8e2d5fd34925ecac03e4988b2c0f851650c94b8cef49ba1bd111478"),
    ("org.apache.tomcat:annotations-api:6.0.53", "253829d3c12b7381d1044fc22c6436cff025fe0d459e4a329413e560a7d0dd13"),
    ("org.bouncycastle:bcpkix-jdk18on:1.83", "d3c4c6b700c74ef8164bb15e549d939721b8f14fc0ff89fe19b220243bcfcbd8"),
    ("org.bouncycastle:bcprov-jdk18on:1.83", "82cf3a2af766c3bc874f6d36b9f20a8b99a8f09762dc776e8a227a45d8daaafb"),
    ("org.bouncycastle:bcutil-jdk18on:1.83", "ee7d0eb4e74de70a735f7fb36b604dd5c6ad35720d50b914604db042114a0185"),
    ("com.alipay.sofa:bolt:1.6.4", "104ffa651ecf5e04541ce91fa48397af953fc90f8b8981907ba33ba91b2f99aa"),
    (
        "com.github.ben-manes.caffeine:caffeine:2.9.3",
        "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    ),
    ("commons-beanutils:commons-beanutils:1.11.0", "9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709"),
    ("commons-cli:commons-cli:1.5.0", "bc8bb01fc0fad250385706e20f927ddcff6173f6339b387dc879237752567ac6"),
    ("commons-codec:commons-codec:1.13", "61f7a3079e92b9fdd605238d0295af5fd11ac411a0a0af48deace1f6c5ffa072"),
    (
        "commons-collections:commons-collections:3.2.2",
        "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
    ),
    ("commons-digester:commons-digester:2.1", "e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d"),
    ("commons-io:commons-io:2.14.0", "e35d1df7232568ed4b81d9a9ed94a0159b3ff6cf1915cc21eef5cb55d7b157a2"),
    ("commons-lang:commons-lang:2.6", "50f11b09f877c294d56f24463f47d28f929cf5044f648661c0f0cfbae9a2f49c"),
    ("org.apache.commons:commons-lang3:3.20.0", "69e5c9fa35da7a51a5fd2099dfe56a2d8d32cf233e2f6d770e796146440263f4"),
    ("commons-logging:commons-logging:1.3.5", "6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4"),
    ("commons-validator:commons-validator:1.10.0", "0d1600cddc24af7f49b5eb01e31adda3ce3b25f236c8c75eaecdf78428469eb9"),
    (
        "com.googlecode.concurrentlinkedhashmap:concurrentlinkedhashmap-lru:1.4.2",
        "56a95fb5b54c661a7efde073b8792f63a8c317e389102673d8d976c7c8f36945",
    ),
    ("com.conversantmedia:disruptor:1.2.10", "cb68abc104a53b1a67204845e85d46afe203001196b4542d32042bbcdf2975d5"),
    ("com.lmax:disruptor:3.3.7", "d5135e76ee238c2f3a5da905115de15ca4c1f1338a3c8869d6947cf108acdb9c"),
    ("io.openmessaging.storage:dledger:0.3.2", "caab8bb2e146823f874fad6116059777e0ba2fe3807e56a3300d81d1db1a4afd"),
    ("com.google.guava:failureaccess:1.0.1", "a171ee4c734dd2da837e4b16be9df4661afab72a41adaf31eb84dfdaf936ca26"),
    ("com.alibaba:fastjson:1.2.83", "641a4d65ab32fbfdccd9c718e3f83ebc4caabdb5e4fe5b3d51527c5fe692631d"),
    ("com.alibaba.fastjson2:fastjson2:2.0.59", "945733b285e6c4992c149c534d29b2a414d0ca73b038143ad6e665e701579bd7"),
    ("io.grpc:grpc-api:1.53.0", "a86967728b17b4edf3c02dbd5011b2e7e323c0b7dd1de899925ca06543467625"),
    ("io.grpc:grpc-context:1.53.0", "2a6431b5e7bca085b5abd844e30f1270e070c1a179d06b2ea3f83d5f60cc251a"),
    ("io.grpc:grpc-core:1.53.0", "0077b9ff9a3b1a6ba3fad2e559c821e8f5176981068a6923647c7486b598aa03"),
    ("io.grpc:grpc-netty-shaded:1.53.0", "516f3879970d5526af4651d220d2b776f370ecdeb0bd9f6badbe4be88692fea2"),
    ("io.grpc:grpc-stub:1.53.0", "f69f8819dd26266e0d8ef62a0f1473894fbdbab9ea459f977037dbc3bc9cf6e4"),
    ("com.google.code.gson:gson:2.9.0", "c96d60551331a196dac54b745aa642cd078ef89b6f267146b705f2c2cbef052d"),
    ("com.google.guava:guava:32.0.1-jre", "bd7fa227591fb8509677d0d1122cf95158f3b8a9f45653f58281d879f6dc48c5"),
    ("com.alipay.sofa:hessian:3.3.6", "3661df5d1a3c9741682affd676e3ca7aa3175cd5f04ad456bc671b671721f3e9"),
    (
        "com.fasterxml.jackson.core:jackson-core:2.18.1",
        "ebe19596ad19f7a0514c8bb8f7b0acf85239a4eff5ae03229e9760d268d29c22",
    ),
    ("org.javassist:javassist:3.20.0-GA", "d7691062fb779c2381640c8f72acba2c23873b01c243866d41c15dc4c8848ea2"),
    ("org.jctools:jctools-core:2.1.1", "21d1f6c06bca41fc8ededed6dbc7972cff668299f1e4c79ca62a9cb39f2fb4f8"),
    ("net.java.dev.jna:jna:4.2.2", "1f38af54e06c6e6f6dbf39ba2c052b952dea5dddb4871127b34639ddeb11bdbe"),
    ("com.alipay.sofa:jraft-core:1.3.14", "865ba9381f36db56ca8270f2af432e50298002b88a6834c390c11b64441aa9aa"),
    ("com.google.code.findbugs:jsr305:3.0.2", "766ad2a0783f2687962c8ad74ceecc38a28b9f72a2d085ee438b7813e928d0c7"),
    ("org.slf4j:jul-to-slf4j:2.0.6", "6466a327c5ac59fc41c98437e248b9052a4fad6fae9f83a7f723eae297990017"),
    ("org.jetbrains.kotlin:kotlin-stdlib:1.8.21", "042a1cd1ac976cdcfe5eb63f1d8e0b0b892c9248e15a69c8cfba495d546ea52a"),
    (
        "org.jetbrains.kotlin:kotlin-stdlib-common:1.8.21",
        "6a44c9ecc9d7754d9e943fb1e3588c74d4a3f1785be51074f49d6c5723682a73",
    ),
    (
        "org.jetbrains.kotlin:kotlin-stdlib-jdk7:1.8.21",
        "33d148db0e11debd0d90677d28242bced907f9c77730000fd597867089039d86",
    ),
    (
        "org.jetbrains.kotlin:kotlin-stdlib-jdk8:1.8.21",
        "3db752a30074f06ee6c57984aa6f27da44f4d2bbc7f5442651f6988f1cb2b7d7",
    ),
    ("at.yawk.lz4:lz4-java:1.10.3", "49753ae8a9b7dc3ce48cb2989cc6605e43eb8269748ad3466251836ec4cd02a8"),
    ("io.dropwizard.metrics:metrics-core:4.0.2", "750e2aed52ca23dd1583352b764d5562161ef2f3b7b702f29a170ea6fe6c6bfb"),
    ("io.netty:netty-buffer:4.1.130.Final", "00a522b67ea35cb7b4dd9cf27f85c6c58f5e306785aa045302e5f6b2d4944a87"),
    ("io.netty:netty-codec:4.1.130.Final", "52636bc29bd62120b97bbe5d1d21eab9b1cb2bef8efbb54d2221c5f3fa08d8cd"),
    ("io.netty:netty-codec-haproxy:4.1.130.Final", "7195ce9d4fb0c466173fe7fb9562c6c3e380e3511a22355d15c16da349c6aa33"),
    ("io.netty:netty-codec-http:4.1.130.Final", "5b6addc1df7b3397a193bd6544a8bfdb18ecac99fd13bee4ec75b1781a664e5e"),
    ("io.netty:netty-codec-http2:4.1.130.Final", "f8ffdb550368fd5dee7c7f1393fa49552522f280ed8de96aebf4269cab0dc8f3"),
    ("io.netty:netty-codec-socks:4.1.130.Final", "9b8f8b2fab256411936ddf5358c3eb6b184c49ea7b8b01f40d473fa94ed7b92c"),
    ("io.netty:netty-common:4.1.130.Final", "53921f28dd5a352b1bed0e1cbcc54d013dc60ffebeae9b2b1e53eabef317e581"),
    ("io.netty:netty-handler:4.1.130.Final", "98c78ec187ca30a4b9775bf6f632f5c9929db6bf06a60e6971f945813880ca0f"),
    ("io.netty:netty-handler-proxy:4.1.130.Final", "33656875d0001587eea4a9778cf2242b418bc887ed03b2d37ef3969e0b7d3b5e"),
    ("io.netty:netty-resolver:4.1.130.Final", "48c5b218a89d184e1b601d46433957f515fcefdb4464182b1348bce4f5a18f35"),
    ("io.netty:netty-transport:4.1.130.Final", "1bf573266d271f856705a9984d25449c56a1d73c02a16af12033ceccfe555dbb"),
    (
        "io.netty:netty-transport-classes-epoll:4.1.130.Final",
        "1c352508d70aca1ccc3068daac907ad1e9d8dc68b07148d57426730bf0d0c8b6",
    ),
    (
        "io.netty:netty-transport-native-unix-common:4.1.130.Final",
        "cf5efc4168597d7cd14695b469418cac2a1134533f9a0c82ef0538d796fd39e1",
    ),
    ("com.squareup.okhttp3:okhttp:4.12.0", "b1050081b14bb7a3a7e55a4d3ef01b5dcfabc453b4573a4fc019767191d5f4e0"),
    ("com.squareup.okio:okio:3.6.0", "8e63292e5c53bb93c4a6b0c213e79f15990fed250c1340f1c343880e1c9c39b5"),
    ("com.squareup.okio:okio-jvm:3.4.0", "0139ec7a506dbbd54cad62291b019cb850534be097c8c66c1000d5fbe8edef3e"),
    ("io.opentelemetry:opentelemetry-api:1.44.1", "097e2e71c8b8c813f4a13176baafbbbb124b1253f5c9fffd110bc2add74ace93"),
    (
        "io.opentelemetry:opentelemetry-api-incubator:1.44.1-alpha",
        "8dbf451ce580fa0252ee9ca77331fd21710710ca9b735a1359241ead3be8ebe5",
    ),
    (
        "io.opentelemetry:opentelemetry-context:1.44.1",
        "006b3f7c3880356a86f02c40eedeba124f226a2f145fe904cc1b7def0088bab0",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-common:1.44.1",
        "259b65adc1e8969804b4232529bd52cbaaabf86049c404f25bce35898023696b",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-logging:1.44.1",
        "9e8f887dcee2d71cab1a0215e09560f03f8d5c1d11edb41cf5512e4c75d3c483",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-logging-otlp:1.44.1",
        "57e6bb990168973cc69125c877ee57e38cbb35db0a74f8a531768bc012eae4cf",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-otlp:1.44.1",
        "9384faa831f082dd10ca4b09eb1906fa2cdd8a8a0fdbfca56ebb4fb4d6e205ec",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-otlp-common:1.44.1",
        "589385cede8e974a092753d7bafbc5afd26e8eaad970e975fb51106557bdae41",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-prometheus:1.44.1-alpha",
        "0d339f76c0d331ae1edd38765ff249e94efa6116bdcead642459ce76036a4b70",
    ),
    (
        "io.opentelemetry:opentelemetry-exporter-sender-okhttp:1.44.1",
        "7b4eaef47b9bae37cc2b6ca9975defd1d49a7de8b4a31fc2dffd582f09d8dac8",
    ),
    ("io.opentelemetry:opentelemetry-sdk:1.44.1", "7c64f330ec197a1eb88059b97dc9376fdb9836695027c96a0cb4e74ef917cebe"),
    (
        "io.opentelemetry:opentelemetry-sdk-common:1.44.1",
        "3770fc477ee0fab21e796bb559f0a996d38c744f3a170868d1b3b85b63b827d0",
    ),
    (
        "io.opentelemetry:opentelemetry-sdk-extension-autoconfigure-spi:1.44.1",
        "f3478af96e4f2f5fd60283522553de4ce99c03606a16e460d07bc6eee12f9f95",
    ),
    (
        "io.opentelemetry:opentelemetry-sdk-logs:1.44.1",
        "ba4a97966ded2927dcaae6e91bf0a1707867e44cc3dd2ae4c7ef8214bdf8daf7",
    ),
    (
        "io.opentelemetry:opentelemetry-sdk-metrics:1.44.1",
        "3c09668a96f1e9443d2894ae456674c8c38b221c096c391fc81616daa672bf68",
    ),
    (
        "io.opentelemetry:opentelemetry-sdk-trace:1.44.1",
        "ff013ab945567dccb5dde638f7a366519defbd2d138df1370936e847ef608c87",
    ),
    ("io.perfmark:perfmark-api:0.25.0", "2044542933fcdf40ad18441bec37646d150c491871157f288847e29cb81de4cb"),
    (
        "io.prometheus:prometheus-metrics-config:1.3.3",
        "1b619be29b1a02a53615665226c2d2e0a84e53a7368311fc5921837d824aeeeb",
    ),
    (
        "io.prometheus:prometheus-metrics-exporter-common:1.3.3",
        "6107891998a36567bcbc146e778503bbb58d56b95bc196e052a4247566b3193c",
    ),
    (
        "io.prometheus:prometheus-metrics-exporter-httpserver:1.3.3",
        "c8a4b3e21c6fa1d10524f1167023841a4d315e3eef0c5980d7b270ccec47ddef",
    ),
    (
        "io.prometheus:prometheus-metrics-exposition-formats:1.3.3",
        "38db66d2d97fa824ee708ddaeb3a358b1b920ec0af5afd8e66d1d9e10017473f",
    ),
    (
        "io.prometheus:prometheus-metrics-model:1.3.3",
        "ca7eedab2b0098ab1b1ef1973271df70ddc5d0b7b32adf6a4a04481e7618b571",
    ),
    ("com.google.protobuf:protobuf-java:3.20.1", "dcbc32c81c8689c39e6672896258f76e660d781bb2526c6c069d5c91055ef153"),
    (
        "com.google.protobuf:protobuf-java-util:3.20.1",
        "fd50ce3f3e25b433d94b8d8acd89b4ad250a852964ffe03f9807b7e2a54731e9",
    ),
    ("org.reflections:reflections:0.9.11", "cca88428f8a8919df885105833d45ff07bd26f985f96ee55690551216b58b4a1"),
    ("org.apache.rocketmq:rocketmq-auth:5.5.0", "94bad9fae3df0bb0e06c8fcc67a80ac1b50d3ceae899b1e37bbbb013380a1f82"),
    ("org.apache.rocketmq:rocketmq-broker:5.5.0", "24d34170a1ce9a9d3c23c78ea1d2f494b3fae9404d5df13b830f2ba1fa5ae956"),
    ("org.apache.rocketmq:rocketmq-client:5.5.0", "50a00394c13545f6cc03a6dae3708142d81ca11a34fb60583c3bcc507ca21962"),
    ("org.apache.rocketmq:rocketmq-common:5.5.0", "74b7942dbc2ac66353717d22c104fcc6bb6e5c65108b1b9120e960e5d7c0b595"),
    (
        "org.apache.rocketmq:rocketmq-controller:5.5.0",
        "05767a27a1dc425f393681e5eaa0941b4ed810517f70b3aab07fd90a60ceea48",
    ),
    ("org.apache.rocketmq:rocketmq-filter:5.5.0", "cbc3c072981d9cd22da0c569bc0f0ab2fc2545cf3f8452aaecfe45828bb4107b"),
    (
        "io.github.aliyunmq:rocketmq-logback-classic:1.0.1",
        "5c1a776192eb54ffceb00a8fbb474077bf74982ebf2512b1101485f4c1982386",
    ),
    ("org.apache.rocketmq:rocketmq-namesrv:5.5.0", "e014415b4b67ad8486995b373866d7c6688404f478937f23d4c6f12a4c27f195"),
    ("org.apache.rocketmq:rocketmq-proto:2.1.2", "de998c191a9b79f457a014a83ce848b70cf72a82e03db0e66dfb0fc54f191c5e"),
    ("org.apache.rocketmq:rocketmq-remoting:5.5.0", "1273e2c5cd49692ac954f36a40251c7c89cbb7c5093a66bfcfbce7ce597dfd95"),
    ("org.apache.rocketmq:rocketmq-rocksdb:1.0.6", "28944d11fd6e5216b6275eb51eedd253c7f521e565ba44008fe2e5cdca4498a0"),
    (
        "io.github.aliyunmq:rocketmq-shaded-slf4j-api-bridge:1.0.0",
        "0ac3e4b52e75f4a4baf0be47a2f1117fa6a3b8242936efcfcdabf9ca5ffd1e2c",
    ),
    ("io.github.aliyunmq:rocketmq-slf4j-api:1.0.1", "6ebbefd23c89e5617577100585e2205fe6d91413f7fae7af75e4eb397b1ee895"),
    ("org.apache.rocketmq:rocketmq-srvutil:5.5.0", "f7a13d68b94da3b0eae60c436b746ebdaae05f4906018b8f6a0196856cb95be8"),
    ("org.apache.rocketmq:rocketmq-store:5.5.0", "950919f63150e0994f8a133424bff5370a5bd84899cef789f429b95cdf39dc82"),
    (
        "org.apache.rocketmq:rocketmq-tiered-store:5.5.0",
        "00aca9373ed25a14ecb28aab8c1f1863f83251cf5bd90a4c0c05f184ae4cd911",
    ),
    ("org.apache.rocketmq:rocketmq-tools:5.5.0", "488187a90ab3fbbe93990fee8652cf5d47319afc336c2a689706f49795004339"),
    ("org.slf4j:slf4j-api:2.0.3", "68ddcda65300ff8097ad1a096d7cd2fb06cef25193887cec3f2690e01bdbf421"),
    ("org.yaml:snakeyaml:2.0", "880c9d896e4b74a06c549c15ca496450165d6909fa15d7e662bee8f6a66d7afa"),
    (
        "com.alipay.sofa.common:sofa-common-tools:1.0.12",
        "fd0681303a919311cacce1bc3949f8519c59df9f71c02df29962becc910bef91",
    ),
    ("com.github.luben:zstd-jni:1.5.2-2", "fedeb4c59d9593e84bc0b1cca30c90da7f3452e78d3a1b9d5dd7370efc474b1d"),
)
"""`group:artifact:version`, as Maven writes it, and the hexadecimal SHA-256 of its jar."""
APACHE_ROCKETMQ = JarSet(
    "Apache RocketMQ", "apache-rocketmq", ROCKETMQ_VERSION, JARS, command="quorumlog bench rocketmq --fetch-apache"
)
