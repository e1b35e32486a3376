CREATE TABLE api_keys (
	id   {text} NOT NULL PRIMARY KEY,
	org  {text} NOT NULL,
	used BIGINT NOT NULL,
	rev  BIGINT NOT NULL,
	doc  TEXT   NOT NULL
);

CREATE INDEX api_keys_org ON api_keys (org, id);
