CREATE TABLE workspaces (
	home     {text} NOT NULL,
	org      {text} NOT NULL,
	name     {text} NOT NULL,
	usr      {text} NOT NULL,
	agent    {text} NOT NULL,
	shared   BIGINT NOT NULL,
	origins  TEXT   NOT NULL,
	dir      {text} NOT NULL,
	uid      BIGINT NOT NULL,
	max_bytes  BIGINT NOT NULL,
	max_inodes BIGINT NOT NULL,
	bytes    BIGINT NOT NULL,
	inodes   BIGINT NOT NULL,
	reserved BIGINT NOT NULL,
	created  BIGINT NOT NULL,
	changed  BIGINT NOT NULL,
	PRIMARY KEY (org, name)
);

CREATE INDEX workspaces_home ON workspaces (home);

CREATE TABLE workspace_orgs (
	org     {text} NOT NULL PRIMARY KEY,
	changes BIGINT NOT NULL
);

CREATE TABLE workspace_store (
	one BIGINT NOT NULL PRIMARY KEY,
	id  {text} NOT NULL
);
