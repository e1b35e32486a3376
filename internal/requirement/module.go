package requirement

import "strings"

// pythonPackages says which package provides a module, by the name of the import;
// where several do, the one that needs nothing of the system. Names with dots are
// those of namespaces that many packages share. Packages that are named as their
// module is are here too if they are well known: a suggestion from this list is
// one that may be followed without a person.
var pythonPackages = pairs(`
	_cffi_backend=cffi accelerate=accelerate aiohttp=aiohttp aiosqlite=aiosqlite airtable=airtable-python-wrapper
	alpaca=alpaca-py anthropic=anthropic arrow=arrow asyncpg=asyncpg atlassian=atlassian-python-api attr=attrs
	attrs=attrs azure.ai.openai=openai azure.core=azure-core azure.cosmos=azure-cosmos
	azure.identity=azure-identity azure.keyvault.secrets=azure-keyvault-secrets azure.servicebus=azure-servicebus
	azure.storage.blob=azure-storage-blob babel=babel barcode=python-barcode bcrypt=bcrypt binance=python-binance
	Bio=biopython bluetooth=pybluez boto=boto boto3=boto3 botocore=botocore bs4=beautifulsoup4 bson=pymongo
	cairo=pycairo cairosvg=cairosvg cassandra=cassandra-driver catboost=catboost ccxt=ccxt certifi=certifi
	chromadb=chromadb click=click colorama=colorama community=python-louvain composio=composio
	confluent_kafka=confluent-kafka consul=python-consul corsheaders=django-cors-headers cowsay=cowsay
	cpuinfo=py-cpuinfo Crypto=pycryptodome Cryptodome=pycryptodomex cryptography=cryptography
	cv2=opencv-python-headless cx_Oracle=cx-oracle databricks=databricks-sdk
	databricks.sql=databricks-sql-connector datasets=datasets dateparser=dateparser dateutil=python-dateutil
	ddgs=ddgs decouple=python-decouple discord=discord.py distro=distro django=django dns=dnspython
	docutils=docutils docx=python-docx docx2txt=docx2txt dotenv=python-dotenv duckdb=duckdb
	duckduckgo_search=duckduckgo-search e2b_code_interpreter=e2b-code-interpreter easyocr=easyocr
	elasticsearch=elasticsearch engineio=python-engineio environ=django-environ eth_account=eth-account
	exa_py=exa-py fabric=fabric faiss=faiss-cpu fastapi=fastapi feedparser=feedparser firecrawl=firecrawl-py
	fitz=pymupdf flask=flask flask_cors=flask-cors flask_login=flask-login flask_restful=flask-restful
	flask_sqlalchemy=flask-sqlalchemy folium=folium fpdf=fpdf2 fuzzywuzzy=fuzzywuzzy geopy=geopy gi=pygobject
	git=gitpython github=pygithub gitlab=python-gitlab google.auth=google-auth
	google.cloud.aiplatform=google-cloud-aiplatform google.cloud.bigquery=google-cloud-bigquery
	google.cloud.firestore=google-cloud-firestore google.cloud.logging=google-cloud-logging
	google.cloud.pubsub=google-cloud-pubsub google.cloud.pubsub_v1=google-cloud-pubsub
	google.cloud.secretmanager=google-cloud-secret-manager google.cloud.speech=google-cloud-speech
	google.cloud.storage=google-cloud-storage google.cloud.texttospeech=google-cloud-texttospeech
	google.cloud.translate=google-cloud-translate google.cloud.vision=google-cloud-vision
	google.genai=google-genai google.generativeai=google-generativeai google.oauth2=google-auth
	google.protobuf=protobuf google_auth_oauthlib=google-auth-oauthlib googleapiclient=google-api-python-client
	googlesearch=googlesearch-python GPUtil=gputil graphviz=graphviz gridfs=pymongo grpc=grpcio
	grpc_status=grpcio-status grpc_tools=grpcio-tools gtts=gtts haystack=haystack-ai hdbscan=hdbscan
	html2text=html2text httpx=httpx huggingface_hub=huggingface-hub humanize=humanize icalendar=icalendar ics=ics
	igraph=python-igraph imageio=imageio imblearn=imbalanced-learn instaloader=instaloader jinja2=jinja2
	jira=jira jose=python-jose jsonschema=jsonschema jwt=pyjwt kafka=kafka-python keras=keras
	langchain_community=langchain-community langchain_core=langchain-core langchain_openai=langchain-openai
	ldap=python-ldap letta_client=letta-client Levenshtein=levenshtein lightgbm=lightgbm llama_index=llama-index
	louvain=louvain lxml=lxml magic=python-magic markdown=markdown markdown2=markdown2 matplotlib=matplotlib
	mcp=mcp memcache=python-memcached mistune=mistune moviepy=moviepy mpi4py=mpi4py mpl_toolkits=matplotlib
	msgpack=msgpack multipart=python-multipart mysql.connector=mysql-connector-python MySQLdb=mysqlclient
	nacl=pynacl nacl.secret=pynacl neo4j=neo4j networkx=networkx newspaper=newspaper3k nltk=nltk nmap=python-nmap
	notion_client=notion-client numpy=numpy odf=odfpy openai=openai OpenGL=pyopengl openpyxl=openpyxl
	opensearchpy=opensearch-py OpenSSL=pyopenssl oracledb=oracledb orjson=orjson osgeo=gdal paho=paho-mqtt
	pandas=pandas paramiko=paramiko passlib=passlib paypalrestsdk=paypalrestsdk pdf2image=pdf2image
	pdfminer=pdfminer.six pendulum=pendulum pexpect=pexpect phonenumbers=phonenumbers pika=pika PIL=pillow
	pinecone=pinecone pkg_resources=setuptools playwright=playwright plotly=plotly polars=polars pptx=python-pptx
	praw=praw prettytable=prettytable psutil=psutil psycopg=psycopg[binary] psycopg2=psycopg2-binary
	pyarrow=pyarrow pyautogui=pyautogui pydantic=pydantic pydantic_settings=pydantic-settings pydot=pydot
	pydub=pydub pylab=matplotlib pymemcache=pymemcache pymongo=pymongo pymupdf=pymupdf pymysql=pymysql
	pynput=pynput pynvml=nvidia-ml-py pyodbc=pyodbc pypdf=pypdf PyPDF2=pypdf2 pytesseract=pytesseract
	pythoncom=pywin32 pytube=pytube pytz=pytz qdrant_client=qdrant-client qrcode=qrcode rdkit=rdkit
	readability=readability-lxml redis=redis rediscluster=redis-py-cluster reportlab=reportlab requests=requests
	requests_oauthlib=requests-oauthlib rest_framework=djangorestframework rich=rich ruamel=ruamel.yaml
	ruamel.yaml=ruamel.yaml s3fs=s3fs scipy=scipy scp=scp scrapy=scrapy seaborn=seaborn selenium=selenium
	sendgrid=sendgrid sentence_transformers=sentence-transformers serial=pyserial serpapi=google-search-results
	setuptools=setuptools sh=sh shapefile=pyshp simplejson=simplejson skimage=scikit-image sklearn=scikit-learn
	slack=slack-sdk slack_bolt=slack-bolt slack_sdk=slack-sdk slugify=python-slugify smbclient=smbprotocol
	snowflake=snowflake-connector-python snowflake.connector=snowflake-connector-python socketio=python-socketio
	socks=pysocks spacy=spacy speech_recognition=speechrecognition sqlalchemy=sqlalchemy starlette=starlette
	statsmodels=statsmodels stdnum=python-stdnum stripe=stripe sympy=sympy tables=tables tabulate=tabulate
	tavily=tavily-python telegram=python-telegram-bot tensorflow=tensorflow termcolor=termcolor textblob=textblob
	tiktoken=tiktoken toml=toml tomli=tomli tomlkit=tomlkit torch=torch torchvision=torchvision tqdm=tqdm
	transformers=transformers trello=py-trello tweepy=tweepy twilio=twilio typer=typer
	typing_extensions=typing-extensions tzlocal=tzlocal ujson=ujson umap=umap-learn urllib3=urllib3 usb=pyusb
	uvicorn=uvicorn vobject=vobject weasyprint=weasyprint weaviate=weaviate-client web3=web3
	websocket=websocket-client websockets=websockets whois=python-whois wikipedia=wikipedia win32api=pywin32
	win32com=pywin32 win32con=pywin32 wx=wxpython xgboost=xgboost Xlib=python-xlib xlrd=xlrd
	xlsxwriter=xlsxwriter yaml=pyyaml yaml_include=pyyaml-include yfinance=yfinance
	youtube_transcript_api=youtube-transcript-api yt_dlp=yt-dlp zmq=pyzmq`)

// pythonStdlib are the modules of Python itself, of any version from 3.8 on.
var pythonStdlib = words(`
	__future__ __main__ _thread abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore
	atexit audioop base64 bdb binascii binhex bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd
	code codecs codeop collections colorsys compileall compression concurrent configparser contextlib contextvars
	copy copyreg crypt csv ctypes curses dataclasses datetime dbm decimal difflib dis distutils doctest email
	encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch formatter fractions ftplib
	functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http idlelib
	imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale logging
	lzma macpath mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis
	nntplib nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev parser pathlib pdb pickle
	pickletools pipes pkgutil platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile
	pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource rlcompleter runpy sched
	secrets select selectors shelve shlex shutil signal site smtpd smtplib sndhdr socket socketserver spwd
	sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess sunau
	symbol symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile termios test textwrap this threading
	time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle turtledemo types typing
	unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound wsgiref xdrlib xml
	xmlrpc zipapp zipfile zipimport zlib zoneinfo`)

// nodeBuiltins are the modules of Node itself.
var nodeBuiltins = words(`
	assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain
	events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl
	stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib`)

// nodePackages are those that may be suggested without a person. Their names are
// those of the imports.
var nodePackages = words(`
	@anthropic-ai/sdk @aws-sdk/client-dynamodb @aws-sdk/client-s3 @google/generative-ai @letta-ai/letta-client
	@modelcontextprotocol/sdk @octokit/rest @slack/web-api @supabase/supabase-js ajv async axios bcryptjs bluebird chalk
	cheerio commander cors csv-parse csv-stringify date-fns dayjs decimal.js dotenv ejs express fast-xml-parser fs-extra
	glob got graphql handlebars immutable ioredis js-yaml jsdom jsonwebtoken knex lodash lodash-es luxon marked mathjs
	minimatch moment mongodb mongoose mysql2 nanoid node-fetch nodemailer openai p-limit p-retry papaparse pdf-lib pdfkit
	pg pino playwright puppeteer qs ramda redis rxjs semver sharp slugify socket.io stripe superagent turndown twilio
	undici uuid validator winston ws xlsx xml2js yaml yargs yup zod`)

// words makes a set of words.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(text) {
		out[w] = true
	}
	return out
}

// pairs makes a map of words with an equals sign between.
func pairs(text string) map[string]string {
	out := map[string]string{}
	for _, w := range strings.Fields(text) {
		k, v, _ := strings.Cut(w, "=")
		out[k] = v
	}
	return out
}
