CREATE TABLE mcp_servers (
	id   {text} NOT NULL PRIMARY KEY,
	org  {text} NOT NULL,
	name {text} NOT NULL,
	doc  TEXT   NOT NULL
);

CREATE UNIQUE INDEX mcp_servers_name ON mcp_servers (org, name);
