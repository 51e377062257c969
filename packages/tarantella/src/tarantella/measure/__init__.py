"""`tarantella measure`: what communication costs on the hosts of a job."""
