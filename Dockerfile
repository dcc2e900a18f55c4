# A Kafka cluster for tests in any language, with the HTTP API that breaks it: see docs/http.md.
FROM python:3.13-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY log log
COPY raft raft
COPY kafka_compat kafka_compat
COPY rocketmq_compat rocketmq_compat
COPY jepsen_like jepsen_like
RUN pip install --no-cache-dir ".[kafka]"
RUN useradd --create-home quorumlog && mkdir /data && chown quorumlog /data
USER quorumlog
WORKDIR /data
EXPOSE 19092-19094 18080
HEALTHCHECK --interval=2s --timeout=10s --start-period=60s CMD ["python", "-c", "import os, urllib.request as http; http.urlopen(http.Request('http://127.0.0.1:18080/status', headers={'Authorization': 'Bearer ' + os.environ['QUORUMLOG_HTTP_TOKEN']}))"]
ENTRYPOINT ["quorumlog"]
CMD ["up", "--system", "kafka", "--data", "/data/up", "--bind", "0.0.0.0:19092", "--advertise", "localhost:19092", "--http", "18080"]
