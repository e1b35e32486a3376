CREATE TABLE audit_facets (
	org   {text} NOT NULL,
	facet BIGINT NOT NULL,
	value {text} NOT NULL,
	at    BIGINT NOT NULL,
	seq   BIGINT NOT NULL,
	PRIMARY KEY (org, facet, value, at, seq)
);

CREATE TABLE audit_indexed (
	org {text} NOT NULL PRIMARY KEY,
	seq BIGINT NOT NULL
);
