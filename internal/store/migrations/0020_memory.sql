CREATE TABLE blocks (
	id          {text} NOT NULL PRIMARY KEY,
	org         {text} NOT NULL,
	label       {text} NOT NULL,
	value       TEXT   NOT NULL,
	description TEXT   NOT NULL,
	max_chars   BIGINT NOT NULL,
	read_only   BIGINT NOT NULL,
	version     BIGINT NOT NULL,
	created     BIGINT NOT NULL,
	updated     BIGINT NOT NULL
);

CREATE INDEX blocks_org ON blocks (org, id);

CREATE INDEX blocks_label ON blocks (org, label, id);

CREATE TABLE agent_blocks (
	agent {text} NOT NULL,
	label {text} NOT NULL,
	block {text} NOT NULL,
	PRIMARY KEY (agent, label)
);

CREATE INDEX agent_blocks_block ON agent_blocks (block, agent);

CREATE TABLE memories (
	agent    {text} NOT NULL PRIMARY KEY,
	org      {text} NOT NULL,
	seq      BIGINT NOT NULL,
	passages BIGINT NOT NULL,
	removed  BIGINT NOT NULL
);

CREATE INDEX memories_org ON memories (org);

CREATE INDEX memories_removed ON memories (agent) WHERE removed = 1;

CREATE TABLE passages (
	id      {text} NOT NULL PRIMARY KEY,
	org     {text} NOT NULL,
	agent   {text} NOT NULL,
	body    TEXT   NOT NULL,
	tags    TEXT   NOT NULL,
	created BIGINT NOT NULL
);

CREATE INDEX passages_agent ON passages (agent, id);

CREATE TABLE turns (
	id      {text} NOT NULL PRIMARY KEY,
	org     {text} NOT NULL,
	agent   {text} NOT NULL,
	usr     {text} NOT NULL,
	idem    {text} NOT NULL,
	status  {text} NOT NULL,
	final   BIGINT NOT NULL,
	owner   {text} NOT NULL,
	cancel  BIGINT NOT NULL,
	ended   BIGINT NOT NULL,
	doc     TEXT   NOT NULL
);

CREATE INDEX turns_agent ON turns (agent, id);

CREATE INDEX turns_conversation ON turns (agent, usr, id);

CREATE UNIQUE INDEX turns_open ON turns (agent, usr) WHERE final = 0;

CREATE INDEX turns_owner ON turns (owner) WHERE final = 0;

CREATE UNIQUE INDEX turns_key ON turns (agent, usr, idem) WHERE idem <> '';

CREATE INDEX turns_usr ON turns (org, usr, id);

CREATE INDEX turns_ended ON turns (org, ended) WHERE final = 1;

CREATE TABLE messages (
	agent    {text} NOT NULL,
	seq      BIGINT NOT NULL,
	id       {text} NOT NULL,
	org      {text} NOT NULL,
	usr      {text} NOT NULL,
	turn     {text} NOT NULL,
	role     {text} NOT NULL,
	replaces BIGINT NOT NULL,
	created  BIGINT NOT NULL,
	doc      TEXT   NOT NULL,
	PRIMARY KEY (agent, seq)
);

CREATE INDEX messages_usr ON messages (agent, usr, seq);

CREATE INDEX messages_summary ON messages (agent, usr, replaces) WHERE replaces > 0;

CREATE UNIQUE INDEX messages_id ON messages (id);

CREATE INDEX messages_turn ON messages (turn, seq);

CREATE TABLE memory_terms (
	agent  {text} NOT NULL,
	term   {text} NOT NULL,
	item   {text} NOT NULL,
	weight BIGINT NOT NULL,
	PRIMARY KEY (agent, term, item)
);

CREATE INDEX memory_terms_item ON memory_terms (item);
