CREATE TABLE leases (
	name  {text} NOT NULL PRIMARY KEY,
	owner {text} NOT NULL,
	ends  BIGINT NOT NULL
);
