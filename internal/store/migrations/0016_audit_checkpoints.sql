CREATE TABLE audit_checkpoints (
	serial BIGINT NOT NULL PRIMARY KEY,
	org    {text} NOT NULL,
	number BIGINT NOT NULL,
	seq    BIGINT NOT NULL,
	doc    TEXT   NOT NULL
);

CREATE UNIQUE INDEX audit_checkpoints_org ON audit_checkpoints (org, number);
