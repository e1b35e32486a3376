CREATE TABLE tools (
	id       {text} NOT NULL PRIMARY KEY,
	org      {text} NOT NULL,
	name     {text} NOT NULL,
	kind     {text} NOT NULL,
	category {text} NOT NULL,
	labels   TEXT   NOT NULL,
	disabled BIGINT NOT NULL,
	number   BIGINT NOT NULL,
	newest   BIGINT NOT NULL,
	created  BIGINT NOT NULL,
	updated  BIGINT NOT NULL
);

CREATE UNIQUE INDEX tools_name ON tools (org, name);

CREATE INDEX tools_category ON tools (org, category, name);

CREATE INDEX tools_kind ON tools (org, kind, name);

CREATE TABLE versions (
	tool    {text} NOT NULL,
	number  BIGINT NOT NULL,
	digest  {text} NOT NULL,
	created BIGINT NOT NULL,
	doc     TEXT   NOT NULL,
	review  TEXT   NOT NULL,
	PRIMARY KEY (tool, number)
);

CREATE INDEX versions_digest ON versions (tool, digest, number);

CREATE TABLE tool_tags (
	org  {text} NOT NULL,
	tag  {text} NOT NULL,
	name {text} NOT NULL,
	tool {text} NOT NULL,
	PRIMARY KEY (org, tag, name)
);

CREATE INDEX tool_tags_tool ON tool_tags (tool);

CREATE TABLE tool_words (
	org    {text} NOT NULL,
	word   {text} NOT NULL,
	weight BIGINT NOT NULL,
	tool   {text} NOT NULL,
	PRIMARY KEY (org, word, weight, tool)
);

CREATE INDEX tool_words_tool ON tool_words (tool, word);

CREATE TABLE calls (
	id      {text} NOT NULL PRIMARY KEY,
	org     {text} NOT NULL,
	usr     {text} NOT NULL,
	agent   {text} NOT NULL,
	tool    {text} NOT NULL,
	turn    {text} NOT NULL,
	parent  {text} NOT NULL,
	created BIGINT NOT NULL,
	status  {text} NOT NULL,
	final   BIGINT NOT NULL,
	owner   {text} NOT NULL,
	doc     TEXT   NOT NULL,
	sealed  TEXT
);

CREATE INDEX calls_org ON calls (org, created, id);

CREATE INDEX calls_usr ON calls (org, usr, created, id) WHERE usr <> '';

CREATE INDEX calls_agent ON calls (org, agent, created, id) WHERE agent <> '';

CREATE INDEX calls_tool ON calls (org, tool, created, id);

CREATE INDEX calls_turn ON calls (org, turn, created, id) WHERE turn <> '';

CREATE INDEX calls_parent ON calls (org, parent, created, id) WHERE parent <> '';

CREATE INDEX calls_status ON calls (status, org, created, id);

CREATE TABLE claims (
	org    {text} NOT NULL,
	scope  {text} NOT NULL,
	name   {text} NOT NULL,
	digest {text} NOT NULL,
	call   {text} NOT NULL,
	at     BIGINT NOT NULL,
	PRIMARY KEY (org, scope, name)
);

CREATE INDEX claims_at ON claims (at);

CREATE TABLE processes (
	owner {text} NOT NULL PRIMARY KEY,
	beat  BIGINT NOT NULL
);

CREATE TABLE approvals (
	id      {text} NOT NULL PRIMARY KEY,
	org     {text} NOT NULL,
	call    {text} NOT NULL,
	state   {text} NOT NULL,
	created BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	doc     TEXT   NOT NULL
);

CREATE INDEX approvals_state ON approvals (org, state, created, id);

CREATE INDEX approvals_call ON approvals (call, created, id);

CREATE INDEX approvals_expires ON approvals (state, expires);

CREATE TABLE events (
	cursor {serial} NOT NULL PRIMARY KEY,
	org    {text} NOT NULL,
	call   {text} NOT NULL,
	usr    {text} NOT NULL,
	agent  {text} NOT NULL,
	tool   {text} NOT NULL,
	seq    BIGINT NOT NULL,
	type   TEXT   NOT NULL,
	at     BIGINT NOT NULL,
	rest   TEXT   NOT NULL,
	data   TEXT   NOT NULL
);

CREATE INDEX events_org ON events (org, cursor);

CREATE INDEX events_call ON events (call, cursor);

CREATE TABLE marks (
	name  {text} NOT NULL PRIMARY KEY,
	value BIGINT NOT NULL
);

INSERT INTO marks (name, value) VALUES ('events', 0), ('events_lost', 0);

CREATE TABLE audit (
	org  {text} NOT NULL,
	seq  BIGINT NOT NULL,
	at   BIGINT NOT NULL,
	doc  TEXT   NOT NULL,
	body TEXT   NOT NULL,
	prev TEXT   NOT NULL,
	hash TEXT   NOT NULL,
	PRIMARY KEY (org, seq)
);

CREATE TABLE audit_heads (
	org  {text} NOT NULL PRIMARY KEY,
	name TEXT   NOT NULL,
	seq  BIGINT NOT NULL,
	hash TEXT   NOT NULL
);

CREATE TABLE checkpoints (
	org {text} NOT NULL,
	seq BIGINT NOT NULL,
	key {text} NOT NULL,
	doc TEXT   NOT NULL,
	PRIMARY KEY (org, seq, key)
);

CREATE TABLE agents (
	id   {text} NOT NULL PRIMARY KEY,
	org  {text} NOT NULL,
	name {text} NOT NULL,
	doc  TEXT   NOT NULL
);

CREATE UNIQUE INDEX agents_name ON agents (org, name);

CREATE TABLE limits (
	name   {text} NOT NULL PRIMARY KEY,
	tokens DOUBLE PRECISION NOT NULL,
	used   BIGINT NOT NULL,
	at     BIGINT NOT NULL
);

CREATE TABLE cached (
	org     {text} NOT NULL,
	name    {text} NOT NULL,
	value   TEXT   NOT NULL,
	expires BIGINT NOT NULL,
	PRIMARY KEY (org, name)
);

CREATE INDEX cached_expires ON cached (expires);

CREATE TABLE chains (
	id      {text} NOT NULL PRIMARY KEY,
	org     {text} NOT NULL,
	created BIGINT NOT NULL,
	final   BIGINT NOT NULL,
	doc     TEXT   NOT NULL
);

CREATE INDEX chains_open ON chains (created, id) WHERE final = 0;

CREATE TABLE policies (
	org     {text} NOT NULL PRIMARY KEY,
	body    TEXT   NOT NULL,
	author  TEXT   NOT NULL,
	updated BIGINT NOT NULL
);

CREATE TABLE settings (
	name  {text} NOT NULL PRIMARY KEY,
	value TEXT   NOT NULL
);
