CREATE TABLE files (
	id      {text}  NOT NULL PRIMARY KEY,
	org     {text}  NOT NULL,
	usr     {text}  NOT NULL,
	agent   {text}  NOT NULL,
	call    {text}  NOT NULL,
	name    TEXT    NOT NULL,
	type    TEXT    NOT NULL,
	size    BIGINT  NOT NULL,
	have    BIGINT  NOT NULL,
	digest  {text}  NOT NULL,
	content {text}  NOT NULL,
	hash    {bytes},
	ttl     BIGINT  NOT NULL,
	created BIGINT  NOT NULL,
	expires BIGINT  NOT NULL
);

CREATE INDEX files_listed ON files (org, id);

CREATE INDEX files_content ON files (content);

CREATE INDEX files_same ON files (org, digest);

CREATE INDEX files_expire ON files (expires);

CREATE INDEX files_call ON files (call);

CREATE TABLE file_parts (
	content {text}  NOT NULL,
	at      BIGINT  NOT NULL,
	data    {bytes} NOT NULL,
	PRIMARY KEY (content, at)
);

CREATE TABLE file_quotas (
	org   {text} NOT NULL PRIMARY KEY,
	files BIGINT NOT NULL,
	bytes BIGINT NOT NULL
);
