"""Tables and figures of Abnar and Zuidema (2020)."""
