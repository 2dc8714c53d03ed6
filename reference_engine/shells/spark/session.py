"""TEMPORARY: to be replaced by its owner."""
import os,sys
def start_session(*, master="local[2]", folder, settings={}):
    os.environ.update(PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession
    b=SparkSession.builder.master(master)
    for k,v in {'spark.ui.enabled':'false','spark.ui.showConsoleProgress':'false','spark.driver.host':'127.0.0.1','spark.driver.bindAddress':'127.0.0.1','spark.log.level':'ERROR','spark.driver.extraJavaOptions':'-XX:+UseSerialGC -XX:TieredStopAtLevel=1','spark.python.unix.domain.socket.enabled':'true',**settings}.items(): b=b.config(k,v)
    return b.getOrCreate()
def stop_session(s):
    s.stop()
