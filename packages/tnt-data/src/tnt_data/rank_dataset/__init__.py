"""Make one rank's dataset of the serial one, as planned: its rows are picked or cut out."""
