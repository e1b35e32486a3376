CREATE TABLE secrets (
	org     {text} NOT NULL,
	kind    {text} NOT NULL,
	scope   {text} NOT NULL,
	name    {text} NOT NULL,
	data    TEXT   NOT NULL,
	plain   BIGINT NOT NULL,
	key     BIGINT NOT NULL,
	print   TEXT   NOT NULL,
	created BIGINT NOT NULL,
	updated BIGINT NOT NULL,
	rev     BIGINT NOT NULL,
	PRIMARY KEY (org, kind, scope, name)
);

CREATE TABLE secret_marks (
	org {text} NOT NULL PRIMARY KEY,
	rev BIGINT NOT NULL
);

CREATE TABLE keysets (
	name {text} NOT NULL PRIMARY KEY,
	data TEXT   NOT NULL,
	rev  BIGINT NOT NULL
);
