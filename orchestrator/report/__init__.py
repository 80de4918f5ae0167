"""Tables, figures and pages, all from the run folder alone: no model and no cluster is needed."""
