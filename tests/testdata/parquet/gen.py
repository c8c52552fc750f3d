# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
# Writes the parquet files that tests read, into the directory that is named.
import sys

import pyarrow as pa
import pyarrow.parquet as pq

d=sys.argv[1]+'/'
pq.write_table(pa.table({'text':['one','caf\u00e9 \U0001f600','','four'],'id':[1,2,None,4],'score':[0.5,1.0,None,2.0]}), d+'text.parquet', row_group_size=2, compression='snappy')
msg=pa.list_(pa.struct([('role',pa.string()),('content',pa.string()),('name',pa.string())]))
pq.write_table(pa.table({'messages':pa.array([[{'role':'user','content':'Two and two?','name':None},{'role':'assistant','content':'Four.','name':None}],[{'role':'user','content':'And one?','name':None},{'role':'assistant','content':'Five.','name':None}]],msg)}), d+'messages.parquet', compression='zstd')
pq.write_table(pa.table({'instruction':['Add.'],'input':['2 2'],'output':['4']}), d+'alpaca.parquet', compression='gzip', use_dictionary=False)
pq.write_table(pa.table({'question':pa.array(['a','b','a']).dictionary_encode(),'answer':pa.array(['x','y','z'],pa.large_string()),'date':pa.array([0,1,2],pa.timestamp('s'))}), d+'columns.parquet', compression='brotli')
c=pa.list_(pa.struct([('from',pa.string()),('value',pa.string())]))
pq.write_table(pa.table({'conversations':pa.array([[{'from':'human','value':'hi'},{'from':'gpt','value':'ho'}]],c)}), d+'conversations.parquet', compression='none')
pq.write_table(pa.table({'text':pa.array([b'fine', b'\xff bytes'],pa.binary())}), d+'bytes.parquet')
pq.write_table(pa.table({'prompt':['2+2=','3+3='],'completion':['4','6']}), d+'prompts.parquet', compression='lz4')
