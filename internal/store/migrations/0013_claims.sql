CREATE TABLE claims_by_agent (
	org    {text} NOT NULL,
	scope  {text} NOT NULL,
	agent  {text} NOT NULL,
	name   {text} NOT NULL,
	digest {text} NOT NULL,
	call   {text} NOT NULL,
	at     BIGINT NOT NULL,
	PRIMARY KEY (org, scope, agent, name)
);

INSERT INTO claims_by_agent (org, scope, agent, name, digest, call, at)
	SELECT org, scope, COALESCE((SELECT agent FROM calls WHERE calls.id = claims.call), ''), name, digest, call, at FROM claims;

DROP TABLE claims;

ALTER TABLE claims_by_agent RENAME TO claims;

CREATE INDEX claims_at ON claims (at);
