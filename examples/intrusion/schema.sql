-- One row for each attempt to open a connection that a sensor sees. 'answered' says whether the host accepted it.
CREATE STREAM Attempts (t TIMESTAMP, source ADDRESS, host ADDRESS, port BIGINT, answered BOOLEAN)
  EVENT TIME t LATENESS '5 s' IDLE '10 min';
