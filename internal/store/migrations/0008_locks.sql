CREATE TABLE locks (
	org     {text} NOT NULL,
	id      {text} NOT NULL,
	created BIGINT NOT NULL,
	body    TEXT   NOT NULL,
	PRIMARY KEY (org, id)
);
