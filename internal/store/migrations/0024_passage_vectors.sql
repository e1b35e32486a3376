CREATE TABLE passage_vectors (
	agent   {text}  NOT NULL,
	passage {text}  NOT NULL,
	model   {text}  NOT NULL,
	dim     BIGINT  NOT NULL,
	vector  {bytes} NOT NULL,
	PRIMARY KEY (agent, passage)
);
