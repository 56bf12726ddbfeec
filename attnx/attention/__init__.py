"""The attention of one input: layer × head × query × key, materialized or computed by rows."""
