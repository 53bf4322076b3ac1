"""Released packages behind ``conform``: an adapter each, with the faults that are known as expectations."""
