"""An etcd cluster that others run."""
