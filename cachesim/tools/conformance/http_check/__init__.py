"""Does a running server answer from its cache as it does without? The suite of ``conform``, with HTTP as its way in."""
