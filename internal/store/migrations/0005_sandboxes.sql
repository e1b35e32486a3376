CREATE TABLE sandbox_configs (
	id   {text} NOT NULL PRIMARY KEY,
	org  {text} NOT NULL,
	type {text} NOT NULL,
	doc  TEXT   NOT NULL
);

CREATE UNIQUE INDEX sandbox_configs_type ON sandbox_configs (org, type);

ALTER TABLE calls ADD COLUMN chain {text} NOT NULL DEFAULT '';

CREATE INDEX calls_chain ON calls (org, chain, created, id) WHERE chain <> '';

CREATE INDEX tools_updated ON tools (org, updated, name);

CREATE TABLE usage_hours (
	org    {text} NOT NULL,
	hour   BIGINT NOT NULL,
	tool   {text} NOT NULL,
	usr    {text} NOT NULL,
	agent  {text} NOT NULL,
	status {text} NOT NULL,
	calls  BIGINT NOT NULL,
	cached BIGINT NOT NULL,
	wall   BIGINT NOT NULL,
	cpu    BIGINT NOT NULL,
	output BIGINT NOT NULL,
	PRIMARY KEY (org, hour, tool, usr, agent, status)
);
