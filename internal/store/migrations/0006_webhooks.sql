CREATE TABLE webhooks (
	id       {text} NOT NULL PRIMARY KEY,
	org      {text} NOT NULL,
	disabled BIGINT NOT NULL,
	position BIGINT NOT NULL,
	owner    {text} NOT NULL,
	lease    BIGINT NOT NULL,
	doc      TEXT   NOT NULL,
	state    TEXT   NOT NULL,
	secret   TEXT   NOT NULL
);

CREATE INDEX webhooks_org ON webhooks (org, id);

CREATE TABLE dead_letters (
	hook {text} NOT NULL,
	id   {text} NOT NULL,
	doc  TEXT   NOT NULL,
	PRIMARY KEY (hook, id)
);
